"""Times, words and JSON documents common to page, API, receivers and terminal. Pure."""
