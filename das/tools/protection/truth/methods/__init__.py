"""Methods of protection, a module for each."""
