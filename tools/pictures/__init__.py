"""Pictures and outputs for the documents, made by the program itself."""
