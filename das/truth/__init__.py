"""Where the truth is used: to count records, to measure, and to hold what was published against it.

Few others open a :class:`das.model.confidential.Confidential`, each for what
``docs/architecture.md`` says ("The truth is a type") and nothing that is published."""
