//! An HTTP service that explains itself: what led to a slow request, to a panic, or what happens just now.
//!
//! `cargo run -p tracebuf-service-example -- 127.0.0.1:8080 FOLDER`, then
//!
//! | request | what it does | what it leaves in the folder |
//! |---|---|---|
//! | `/` | takes some milliseconds | nothing |
//! | `/slow` | waits for a lock | `….slow-request-1.pftrace` |
//! | `/panic` | panics | `….panic-1.pftrace` |
//!
//! `kill -USR1` asks for a snapshot at any time. Each opens in ui.perfetto.dev.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use tokio::sync::Mutex;
use tokio::time::sleep;
use tracebuf_session::{FlightRecorder, Session};
use tracebuf_tracing::TraceLayer;
use tracing::{Instrument, info, info_span, instrument, warn};
use tracing_subscriber::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let folder = arguments.next().map_or_else(std::env::temp_dir, Into::into);

    // The newest events of all threads, in 16 MiB.
    let session = Arc::new(Session::builder().ring(16 << 20).prepare_snapshots().start()?);
    let flight = FlightRecorder::new(&session, folder)?;
    flight.on_panic();
    flight.on_signals(&[libc::SIGUSR1])?;
    let layer =
        TraceLayer::for_async(session.recorder()).slow("request", Duration::from_millis(200), &flight);
    tracing_subscriber::registry().with(layer).init();

    let shop = Arc::new(Mutex::new(0));
    let slow = {
        let shop = shop.clone();
        move || wait_for(shop.clone())
    };
    let routes = Router::new()
        .route("/", get(|| order(1)))
        .route("/slow", get(slow))
        .route("/panic", get(fail))
        .layer(from_fn(traced));
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, routes).await?;
    Ok(())
}

/// A span for each request, and a counter of them.
async fn traced(request: Request, next: Next) -> Response {
    info!(monotonic_counter.requests = 1);
    let span = info_span!("request", method = %request.method(), path = request.uri().path());
    next.run(request).instrument(span).await
}

#[instrument]
async fn order(rows: u64) -> String {
    sleep(Duration::from_millis(5)).await;
    info!(rows, "read");
    format!("{rows} rows\n")
}

/// Somebody else holds the lock for as long as makes the request slow.
#[instrument(skip_all)]
async fn wait_for(shop: Arc<Mutex<u64>>) -> String {
    let held = shop.clone().lock_owned().await;
    let other = async move {
        sleep(Duration::from_millis(300)).await;
        drop(held);
    };
    tokio::spawn(other.instrument(info_span!("inventory")));
    warn!("waiting for the shop");
    let mut orders = shop.lock().instrument(info_span!("lock")).await;
    *orders += 1;
    order(*orders).await
}

#[instrument]
async fn fail() -> String {
    panic!("nobody expects it")
}
