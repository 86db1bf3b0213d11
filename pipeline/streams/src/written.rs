//! A stream on which bytes count as written when they have left its buffer.

use std::io;
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
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        Poll::Ready(Ok(std::mem::take(&mut self.buffered)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
