"""What requests take and answer: parameters, schemas, and the description of all requests."""
