"""Statistics of population groups: tables that are the finer the larger the group."""
