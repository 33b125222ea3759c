"""Tenants: banks and their spaces, keys, quotas, audit of calls, removal."""
