"""Tools, a folder for each, with its command. They rest on the core and on publications."""
