"""The report: a table's history, files and costs as one HTML page, with advice.

Facts, words and figures enter here. Begin at `report`.
"""
