//! The gate lets registrations in, before anything of them is read.

use axum::{
    extract::{FromRequest, Request},
    response::{IntoResponse as _, Response},
};
use futures_util::StreamExt as _;

use crate::{
    http::Api,
    limits::{BATCH_REQUEST_BYTES_MAX, HTTP_BODY_WAIT_MAX, REQUEST_BYTES_MAX},
};

/// The parts `P` of a registration, of one task or of a batch. They are read only while the node takes registrations; one that
/// is refused is answered in turn.
#[derive(Debug)]
pub(in crate::http) struct Gated<P, const IS_BATCH: bool>(pub(in crate::http) P);

impl<P: FromRequest<Api>, const IS_BATCH: bool> FromRequest<Api> for Gated<P, IS_BATCH> {
    type Rejection = Response;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Response> {
        if let Err(refused) = api.admission.is_open(IS_BATCH) {
            let bytes_max = if IS_BATCH {
                BATCH_REQUEST_BYTES_MAX
            } else {
                REQUEST_BYTES_MAX
            };
            discard(api, request, bytes_max).await;
            api.admission.refusal().await;
            return Err(refused.into_response());
        }
        let parts = P::from_request(request, api).await;
        parts.map(Self).map_err(P::Rejection::into_response)
    }
}

/// Reads a body and keeps nothing of it, for an answer that does not depend on it. A client that is still
/// sending when the connection is closed may never see the answer.
async fn discard(api: &Api, request: Request, bytes_max: usize) {
    let mut left = bytes_max;
    let mut stream = request.into_body().into_data_stream();
    let reading = async {
        while let Some(Ok(chunk)) = stream.next().await
            && chunk.len() <= left
        {
            left -= chunk.len();
        }
    };
    // A client that is slower than that is cut off.
    let time = &api.options.time;
    time.within(HTTP_BODY_WAIT_MAX, reading).await;
}
