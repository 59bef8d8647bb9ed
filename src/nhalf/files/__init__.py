"""The door between nhalf and the disk: every file that is written, and how much of a stranger's file is believed."""
