"""Folders of the Detailed DHC that are made up."""
