"""Retrievers: BM25, dense vectors, or a server that speaks the ``/retrieve`` protocol."""
