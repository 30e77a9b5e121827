"""JSON Schemas of the files and messages of fabricmon, and the OpenAPI document of its API."""
