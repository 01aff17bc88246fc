"""Math problems as a domain: a Python tool in a jail of its own, and answers that are judged."""
