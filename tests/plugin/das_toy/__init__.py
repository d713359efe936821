"""Another package: a publication, a reader, a protection method and a command."""
