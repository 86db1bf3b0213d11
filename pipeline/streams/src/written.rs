//! A stream on which bytes count as written when they have left its buffer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream with a buffer of its own, such as that of TLS. A writer need not flush, and sees when the peer does not read.
pub(crate) struct BufferedStream<S> {
    stream: S,
    /// Bytes in the buffer, of a write that has not ended.
    buffered: usize,
}

impl<S> BufferedStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffered: 0 }
    }
}

impl<S: AsyncWrite + Unpin> BufferedStream<S> {
    /// How many bytes are written, once they have left the buffer.
    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        Poll::Ready(Ok(std::mem::take(&mut self.buffered)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BufferedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BufferedStream<S> {
    /// A write that is pending has to be tried again with the same bytes, or those behind them as well.
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.buffered == 0 {
            self.buffered = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        }
        self.poll_written(context)
    }

    /// The same for many slices at a time. Those behind the first one would otherwise each be a record, and a call.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.buffered == 0 {
            let stream = Pin::new(&mut self.stream);
            self.buffered = ready!(stream.poll_write_vectored(context, slices))?;
        }
        self.poll_written(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// A stream with a buffer that counts how often it is flushed, with all that was written before.
    #[derive(Debug, Default)]
    struct Counting {
        buffer: Vec<u8>,
        flushed: Vec<usize>,
    }

    impl AsyncWrite for Counting {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.buffer.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            slices.iter().for_each(|slice| self.buffer.extend_from_slice(slice));
            Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            let written = self.buffer.len();
            self.flushed.push(written);
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn answers_that_are_written_together_leave_together() {
        let mut stream = BufferedStream::new(Counting::default());
        assert!(stream.is_write_vectored());
        let slices = [&b"one"[..], b"two", b"three"].map(IoSlice::new);
        assert_eq!(stream.write_vectored(&slices).await.unwrap(), 11);
        assert_eq!(stream.stream.buffer, b"onetwothree");
        assert_eq!(stream.stream.flushed, [11], "once");
        assert_eq!(stream.write(b"four").await.unwrap(), 4);
        assert_eq!(stream.stream.flushed, [11, 15]);
    }
}
