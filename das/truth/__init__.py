"""Where the truth is used: to count records, to measure, and to compare published counts with it.

Few other modules open a :class:`das.model.confidential.Confidential`. ``docs/reference/architecture.md``
("The truth is a type") lists them with their reasons; nothing that they make is published."""
