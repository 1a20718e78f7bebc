//! store_contract
