"""Authorisation, rate limits, names and expiry of certificates. Pure."""
