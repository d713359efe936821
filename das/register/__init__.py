"""The register of an office: one account of all its releases, and a cap that no run can pass."""
