//! Standard input through a thread, so that Ctrl-C is noticed while nothing comes in.
//!
//! # Invariants
//! N1. At most `BLOCKS_WAITING` blocks of `BLOCK_BYTES` are held that nobody has taken yet.
//! N2. `Blocks::waiting` never blocks: it gives only what has been read already.
//! N3. A signal ends the input as an error, never as its end.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::signal;

const BLOCK_BYTES: usize = 64 << 10;
const BLOCKS_WAITING: usize = 64;
const SIGNAL_EVERY: Duration = Duration::from_millis(50);

/// Blocks of standard input, in order.
pub(crate) struct Blocks {
    blocks: Receiver<io::Result<Vec<u8>>>,
    rest: Vec<u8>,
    taken: usize,
    ended: bool,
}

impl Blocks {
    pub(crate) fn start() -> io::Result<Self> {
        let (send, blocks) = sync_channel(BLOCKS_WAITING);
        thread::Builder::new().name("stdin".to_owned()).spawn(move || pump(&send))?;
        Ok(Self { blocks, rest: Vec::new(), taken: 0, ended: false })
    }

    /// The next block; nothing at the end of the input.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        while !self.ended {
            if signal::check().is_err() {
                return Err(io::Error::other("interrupted"));
            }
            match self.blocks.recv_timeout(SIGNAL_EVERY) {
                Ok(block) => return block.map(Some),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.ended = true,
            }
        }
        Ok(None)
    }

    /// The next block, if it has been read already.
    pub(crate) fn waiting(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.blocks.try_recv() {
            Ok(block) => block.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                self.ended = true;
                Ok(None)
            }
        }
    }
}

impl Read for Blocks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.rest.len() {
            let Some(block) = self.next()? else { return Ok(0) };
            (self.rest, self.taken) = (block, 0);
        }
        let left = self.rest.get(self.taken..).unwrap_or_default();
        let n = left.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..n), left.get(..n)) {
            to.copy_from_slice(from);
        }
        self.taken += n;
        Ok(n)
    }
}

fn pump(send: &SyncSender<io::Result<Vec<u8>>>) {
    let mut input = io::stdin().lock();
    let mut buf = vec![0; BLOCK_BYTES];
    loop {
        let block = match input.read(&mut buf) {
            Ok(0) => return,
            Ok(n) => Ok(buf.get(..n).unwrap_or_default().to_vec()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => Err(e),
        };
        let failed = block.is_err();
        if send.send(block).is_err() || failed {
            return;
        }
    }
}
