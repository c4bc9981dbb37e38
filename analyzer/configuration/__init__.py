"""What a user, a team or a project has configured: ``whyhang.toml``."""
