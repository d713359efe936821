"""Copies of finished runs in S3 and other stores."""
