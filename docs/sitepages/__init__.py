"""What the site adds to Sphinx: navigation, mathematics, generated parts and links from names.

The pages are plain Markdown that reads well on a code host as well. What only the site has is added while it is built.
"""
