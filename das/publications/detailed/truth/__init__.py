"""From folders of records to the measurements of the Detailed DHC."""
