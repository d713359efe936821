"""Methods of protection, and studies of them: all that has their records."""
