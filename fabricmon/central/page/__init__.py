"""The status page as HTML, and the fabric map as JSON. Pure; `central/website` serves them."""
