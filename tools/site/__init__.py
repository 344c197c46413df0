"""The site: `make site` writes build/site, which any static host serves as it is."""
