"""Studies of protection methods: their specification, files and pages."""
