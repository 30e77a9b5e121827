"""Documents of the API and the page, as data. Pure."""
