"""The rules, one file each; the tuple RULES is the registry."""
