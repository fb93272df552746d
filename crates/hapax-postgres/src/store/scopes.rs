//! The numbers of scopes, which the server assigns and every process remembers.

use super::names::Names;
use super::options::Layout;
use super::rows::column;
use super::session::Session;
use super::{schema, statements};
use hapax_store::sync::{Mutex, lock};
use hapax_store::{Scope, StoreError};
use std::collections::{BTreeSet, HashMap};
use tokio_postgres::types::Type;

/// The number of remembered scopes. The numbers of more scopes are asked for again.
const REMEMBERED_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Scopes {
    /// The known numbers. A number never changes, so an entry never becomes wrong.
    known: Mutex<HashMap<Scope, i32>>,
}

impl Scopes {
    /// Returns the numbers of these scopes. A scope that was never written to gets a number if this
    /// is asked `to_write`, and has none otherwise.
    pub(super) async fn numbers<'k>(
        &self,
        session: &Session<'_>,
        names: &Names,
        layout: Layout,
        scopes: impl Iterator<Item = &'k Scope> + Clone,
        to_write: bool,
    ) -> Result<Vec<Option<i32>>, StoreError> {
        let mut unknown = self.unknown(scopes.clone());
        let mut numbers = HashMap::new();
        if !unknown.is_empty() {
            numbers = self.ask(session, names, layout, &unknown, to_write).await?;
            unknown.retain(|scope| !numbers.contains_key(scope));
            if to_write && !unknown.is_empty() {
                let absent: Vec<&str> = unknown.iter().map(Scope::as_str).collect();
                session
                    .query("insert scopes", &statements::insert_scopes(names), &[(&absent, Type::TEXT_ARRAY)])
                    .await?;
                numbers.extend(self.ask(session, names, layout, &unknown, to_write).await?);
            }
        }
        let known = lock(&self.known);
        let mut last: Option<(&Scope, Option<i32>)> = None;
        let number = |scope: &'k Scope| match last {
            Some((same, number)) if same == scope => number,
            _ => {
                let number = known.get(scope).or_else(|| numbers.get(scope)).copied();
                last = Some((scope, number));
                number
            }
        };
        Ok(scopes.map(number).collect())
    }

    /// Returns the unknown scopes in order, so that two processes that insert the same ones do not
    /// wait for each other.
    fn unknown<'k>(&self, scopes: impl Iterator<Item = &'k Scope>) -> BTreeSet<Scope> {
        let known = lock(&self.known);
        let mut unknown = BTreeSet::new();
        let mut last = None;
        for scope in scopes {
            // Most batches have one scope.
            if last != Some(scope) && !known.contains_key(scope) {
                unknown.insert(scope.clone());
            }
            last = Some(scope);
        }
        unknown
    }

    async fn ask(
        &self,
        session: &Session<'_>,
        names: &Names,
        layout: Layout,
        scopes: &BTreeSet<Scope>,
        to_write: bool,
    ) -> Result<HashMap<Scope, i32>, StoreError> {
        let asked: Vec<&str> = scopes.iter().map(Scope::as_str).collect();
        let mut numbers = HashMap::new();
        for row in session.query("look scopes up", &statements::scopes(names), &[(&asked, Type::TEXT_ARRAY)]).await? {
            let number = column(&row, "scope")?;
            if layout == Layout::PerScope && !column::<bool>(&row, "has_table")? {
                // The process that assigned the number may not have come to make the table.
                if !to_write {
                    continue;
                }
                make_table(session, names, number).await?;
            }
            numbers.insert(Scope::from_stored(column(&row, "name")?)?, number);
        }
        let mut known = lock(&self.known);
        if known.len() + numbers.len() > REMEMBERED_MAX {
            known.clear();
        }
        known.extend(numbers.iter().map(|(scope, number)| (scope.clone(), *number)));
        Ok(numbers)
    }
}

async fn make_table(session: &Session<'_>, names: &Names, scope: i32) -> Result<(), StoreError> {
    let sql = statements::begin_plain(session.settings());
    let sql = format!("{sql}{} COMMIT", schema::scopes_own(names, scope));
    session.batch("make a scope's table", &sql).await
}
