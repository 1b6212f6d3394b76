"""Raw text -> words -> ids in integer arrays. No networks; the only files are vocabularies and word vectors."""
