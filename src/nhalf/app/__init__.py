"""The app: the question of `nhalf decode` under the mouse, in a browser, from this machine alone."""
