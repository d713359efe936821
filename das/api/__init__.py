"""The Python functions of ``das``, on files and on arrays; ``das`` has their names."""
