"""DLIO (https://github.com/argonne-lcf/dlio_benchmark) with scrtune as its checkpoint mechanism."""
