//! A wire that can be cut: between an executor and its node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes everything on, until it is cut.
pub(super) struct Proxy {
    pub(super) url: String,
    cuts: watch::Sender<u64>,
    /// After so many bytes to the executor the wire breaks by itself; 0 means never.
    budget: Arc<AtomicU64>,
}

impl Proxy {
    pub(super) async fn to(url: &str) -> Proxy {
        let target = url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (cuts, cut) = watch::channel(0);
        let budget: Arc<AtomicU64> = Arc::default();
        let left = Arc::clone(&budget);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(&target).await else { continue };
                let (mut cut, left) = (cut.clone(), Arc::clone(&left));
                cut.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        () = pass(near, far, left) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Proxy { url, cuts, budget }
    }

    /// Cuts all wires; new ones can be made.
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    /// Cuts the wire in the middle of what comes, after so many bytes.
    pub(super) fn cut_after(&self, bytes: u64) {
        self.budget.store(bytes, Ordering::SeqCst);
    }
}

async fn pass(near: TcpStream, far: TcpStream, left: Arc<AtomicU64>) {
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let up = async { drop(tokio::io::copy(&mut near_in, &mut far_out).await) };
    let down = async {
        let mut buffer = vec![0; 4_096];
        while let Ok(count @ 1..) = far_in.read(&mut buffer).await {
            let budget = left.load(Ordering::SeqCst);
            let is_over = budget > 0 && budget <= count as u64;
            let count = if is_over { budget as usize } else { count };
            if near_out.write_all(&buffer[..count]).await.is_err() || is_over {
                left.store(0, Ordering::SeqCst);
                return;
            }
            if budget > 0 {
                left.store(budget - count as u64, Ordering::SeqCst);
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}
