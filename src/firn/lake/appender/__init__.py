"""Appenders: rows that are added one by one, gathered, and appended in batches, each exactly once.

What gathers rows for `firn.lake.write.append` enters here. `appender` is what users hold, `aio` its twin for asyncio;
`queue` has the rows and the thread, `batch_writer` commits a batch, `batches` says where one ends, and `together`
makes columns of its rows. Begin at `queue`.
"""
