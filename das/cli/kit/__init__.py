"""What commands share: options, messages, tables in a terminal, interruption."""
