"""The lab: the claims of the article, predicted and then seen, on hosts of this machine or message by message."""
