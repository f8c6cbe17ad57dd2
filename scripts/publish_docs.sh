#!/bin/sh
# Publish a built site on the branch gh-pages, in a folder for its version: publish_docs.sh SITE VERSION
# The first page leads to the newest release, or to `latest` before there is one.
set -eu
site=$1
version=$2
pages=$(mktemp -d)
if git fetch --quiet origin gh-pages; then
    git worktree add --quiet --detach "$pages" FETCH_HEAD
else
    git worktree add --quiet --detach "$pages"
    git -C "$pages" checkout --quiet --orphan gh-pages
    git -C "$pages" rm -r --quiet --force .
fi
rm -rf "${pages:?}/$version"
cp -R "$site" "$pages/$version"
touch "$pages/.nojekyll"
newest=$(cd "$pages" && ls -d v*/ 2> /dev/null | sort -V | tail -1)
newest=${newest:-latest/}
echo "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=$newest\"><a href=\"$newest\">Documentation</a>" \
    > "$pages/index.html"
git -C "$pages" add --all
git -C "$pages" commit --quiet --message "Documentation of $version" || echo "nothing has changed"
git -C "$pages" push --quiet origin HEAD:refs/heads/gh-pages
git worktree remove --force "$pages"
