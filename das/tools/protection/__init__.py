"""Protection methods on the same records and the same tables.

A table set (:mod:`das.tools.protection.published`) says which lines an office publishes, level by level. A
method (:mod:`das.tools.protection.truth.method`) turns records, which are confidential,
into protected tables (:mod:`das.tools.protection.published`): what anybody may know of each line. An attack
(:mod:`das.tools.protection.attack`) sees nothing else."""
