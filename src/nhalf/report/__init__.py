"""Reports: answers as text, as JSON documents and as tables; no arithmetic beyond formatting."""
