"""Collectives and shared memory over a CXL pool: penstock.torch for PyTorch, penstock.pool for pools."""
