"""From linked records to the measurements of the S-DHC."""
