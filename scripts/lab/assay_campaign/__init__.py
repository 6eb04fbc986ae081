"""Campaigns: many runs under faults, each checked against the promises of docs/explanation/reliability.md."""
