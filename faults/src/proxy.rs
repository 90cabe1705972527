//! A TCP proxy with faults: slow, cut, or silent in one direction or both, switched while it runs.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What happens to bytes in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They are passed on.
    Open,
    /// They are passed on later.
    Slow(Duration),
    /// They are held back and the sockets stay open, as behind a route that drops packets. When the direction opens again
    /// they are passed on, like retransmitted packets.
    Silent,
}

/// The state of the proxy.
#[derive(Clone, Copy, Debug)]
struct Switch {
    /// The target of new connections.
    server: SocketAddr,
    to_server: Way,
    to_client: Way,
    takes_new: bool,
    /// Increases when all connections are to be cut.
    cuts: u64,
}

/// A proxy that runs until this is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    switch: watch::Sender<Switch>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of a server.
    pub async fn start(server: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let all_open =
            Switch { server, to_server: Way::Open, to_client: Way::Open, takes_new: true, cuts: 0 };
        let switch = watch::Sender::new(all_open);
        let task = tokio::spawn(take(listener, switch.clone()));
        Ok(Proxy { address, switch, task })
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets both directions, for existing and new connections.
    pub fn set(&self, to_server: Way, to_client: Way) {
        self.switch.send_modify(|switch| (switch.to_server, switch.to_client) = (to_server, to_client));
    }

    /// Sends new connections to another server, as moving an address does. Existing connections stay.
    pub fn redirect(&self, server: SocketAddr) {
        self.switch.send_modify(|switch| switch.server = server);
    }

    /// Resets all connections.
    pub fn cut(&self) {
        self.switch.send_modify(|switch| switch.cuts += 1);
    }

    /// Refuses or accepts new connections. Existing ones stay.
    pub fn take_new(&self, takes_new: bool) {
        self.switch.send_modify(|switch| switch.takes_new = takes_new);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.take_new(true);
        self.set(Way::Open, Way::Open);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

async fn take(listener: TcpListener, switch: watch::Sender<Switch>) {
    while let Ok((client, _)) = listener.accept().await {
        let told = switch.subscribe();
        let Switch { server, takes_new, .. } = *told.borrow();
        match takes_new {
            true => drop(tokio::spawn(carry(client, server, told))),
            false => reset(client),
        }
    }
}

/// Copies bytes between a client and the server until one of them closes or the connection is cut.
async fn carry(mut client: TcpStream, server: SocketAddr, mut told: watch::Receiver<Switch>) {
    let before = told.borrow().cuts;
    let Ok(mut server) = TcpStream::connect(server).await else { return reset(client) };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let has_ended_well = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let there = pump(from_client, to_server, told.clone(), |switch| switch.to_server);
        let back = pump(from_server, to_client, told.clone(), |switch| switch.to_client);
        tokio::select! {
            well = async { tokio::try_join!(there, back).is_ok() } => well,
            _ = told.wait_for(|switch| switch.cuts != before) => false,
        }
    };
    if !has_ended_well {
        reset(client);
        reset(server);
    }
}

async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut told: watch::Receiver<Switch>,
    way: fn(&Switch) -> Way,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        passable(&mut told, way).await?;
        let count = from.read(&mut bytes).await?;
        // Bytes read just before the direction fell silent are held back.
        if let Way::Slow(delay) = passable(&mut told, way).await? {
            tokio::time::sleep(delay).await;
        }
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&bytes[..count]).await?;
    }
}

/// Waits until bytes may pass, and returns the state of the direction.
async fn passable(told: &mut watch::Receiver<Switch>, way: fn(&Switch) -> Way) -> io::Result<Way> {
    let switch = told.wait_for(|switch| way(switch) != Way::Silent).await;
    switch.map(|switch| way(&switch)).map_err(|_| io::Error::other("the proxy is gone"))
}

/// Closes a connection with a reset.
fn reset(stream: TcpStream) {
    let _ = stream.set_zero_linger();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const SHORT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(10);

    /// A server that says everything back.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }

    async fn connected() -> (Proxy, TcpStream) {
        let proxy = Proxy::start(echo().await).await.expect("a proxy");
        let client = TcpStream::connect(proxy.address()).await.expect("it takes everybody");
        (proxy, client)
    }

    async fn hear(client: &mut TcpStream, patience: Duration) -> Option<io::Result<u8>> {
        tokio::time::timeout(patience, client.read_u8()).await.ok()
    }

    async fn says(client: &mut TcpStream, byte: u8) {
        client.write_u8(byte).await.expect("it is connected");
    }

    #[tokio::test]
    async fn bytes_pass_and_an_end_is_passed_on() {
        let (_proxy, mut client) = connected().await;
        says(&mut client, 7).await;
        assert_eq!(hear(&mut client, LONG).await.expect("in time").expect("a byte"), 7);
        client.shutdown().await.expect("an end");
        let end = hear(&mut client, LONG).await.expect("in time").expect_err("the end");
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn what_is_silent_in_either_direction_keeps_its_bytes_until_it_opens() {
        for (there, back) in [(Way::Silent, Way::Open), (Way::Open, Way::Silent), (Way::Silent, Way::Silent)]
        {
            let (proxy, mut client) = connected().await;
            says(&mut client, 1).await;
            assert!(hear(&mut client, LONG).await.is_some());
            proxy.set(there, back);
            says(&mut client, 2).await;
            assert!(hear(&mut client, SHORT).await.is_none(), "{there:?} {back:?}");
            proxy.heal();
            assert_eq!(hear(&mut client, LONG).await.expect("in time").expect("a byte"), 2);
        }
    }

    #[tokio::test]
    async fn a_cut_resets_what_is_connected_and_takes_what_comes() {
        let (proxy, mut client) = connected().await;
        says(&mut client, 1).await;
        assert!(hear(&mut client, LONG).await.is_some());
        proxy.cut();
        let end = hear(&mut client, LONG).await.expect("in time").expect_err("an end");
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
        let mut again = TcpStream::connect(proxy.address()).await.expect("it takes everybody");
        says(&mut again, 3).await;
        assert_eq!(hear(&mut again, LONG).await.expect("in time").expect("a byte"), 3);
    }

    #[tokio::test]
    async fn a_silent_connection_can_still_be_cut() {
        let (proxy, mut client) = connected().await;
        says(&mut client, 1).await;
        assert!(hear(&mut client, LONG).await.is_some());
        proxy.set(Way::Silent, Way::Silent);
        says(&mut client, 2).await;
        proxy.cut();
        assert!(hear(&mut client, LONG).await.expect("in time").is_err());
    }

    #[tokio::test]
    async fn who_is_not_taken_is_reset_while_others_stay() {
        let (proxy, mut client) = connected().await;
        says(&mut client, 1).await;
        assert!(hear(&mut client, LONG).await.is_some());
        proxy.take_new(false);
        let mut other = TcpStream::connect(proxy.address()).await.expect("the kernel takes it");
        assert!(hear(&mut other, LONG).await.expect("in time").is_err());
        says(&mut client, 4).await;
        assert_eq!(hear(&mut client, LONG).await.expect("in time").expect("a byte"), 4);
    }

    #[tokio::test]
    async fn what_is_slow_comes_later() {
        let (proxy, mut client) = connected().await;
        proxy.set(Way::Slow(SHORT), Way::Slow(SHORT));
        let started = Instant::now();
        says(&mut client, 1).await;
        assert!(hear(&mut client, LONG).await.is_some());
        assert!(started.elapsed() >= 2 * SHORT);
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_a_reset() {
        let nobody = SocketAddr::from(([127, 0, 0, 1], punctual_scratch::free_port()));
        let proxy = Proxy::start(nobody).await.expect("a proxy");
        let mut client = TcpStream::connect(proxy.address()).await.expect("the proxy is there");
        assert!(hear(&mut client, LONG).await.expect("in time").is_err());
    }
}
