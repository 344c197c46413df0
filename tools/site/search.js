/**
 * Which pages a search finds, instead of Sphinx's rule that a page has every word: who pastes an error has words of his
 * own in it, and a pair of Chinese characters may straddle two words. A word weighs more the rarer it is, more in a
 * title, most where all of the page's title was asked for; what torch calls an operation is the learner's own, and weighs
 * less. What has much less of the words than the best page isn't shown.
 */
"use strict";

const IN_TITLE = 3;
const WHOLE_TITLE = 6;
const NEARLY = 2 / 3;
const PART = 0.5; // of a word's weight, where it is only a part of others
const OPERATION = /backward\d+$/;
const OWN = 0.25; // of an operation's weight
const BEHIND = 0.99; // of what Sphinx gives a heading that was asked for: it is told before its page

Search.performTermsSearch = (words) => {
  const { docnames, titles, filenames } = Search._index;
  const whole = titles.map((title) => wholeTitle(words, title));
  const found = new Map();
  let most = 0;
  for (const word of words) {
    const { inText, inTitles, share } = placesOf(word);
    const pages = new Set([...inText, ...inTitles]);
    const weight = share * (OPERATION.test(word) ? OWN : 1) * Math.log(1 + docnames.length / pages.size);
    if (pages.size) most += weight;
    for (const page of pages) {
      const so = found.get(page) ?? { has: 0, score: 0 };
      const times = whole[page].includes(word) ? WHOLE_TITLE : inTitles.includes(page) ? IN_TITLE : 1;
      found.set(page, { has: so.has + weight, score: so.score + weight * times });
    }
  }
  const best = Math.max(...[...found.values()].map(({ has }) => has));
  return [...found]
    .filter(([page, { has }]) => has >= NEARLY * best || whole[page].length)
    .map(([page, { score }]) => [docnames[page], titles[page], "", null, (BEHIND * Scorer.title * score) / (IN_TITLE * most), filenames[page], SearchResultKind.text]);
};

/** The pages that have a word in their text and in their titles; where none has, those that have longer ones with it. */
function placesOf(word) {
  const { terms, titleterms } = Search._index;
  const pages = (named) => [terms, titleterms].map((table) => named(table).flatMap((each) => table[each]));
  const [inText, inTitles] = pages((table) => (Object.hasOwn(table, word) ? [word] : []));
  if (inText.length + inTitles.length || word.length < 3) return { inText, inTitles, share: 1 };
  const [near, nearTitles] = pages((table) => Object.keys(table).filter((each) => each.includes(word)));
  return { inText: near, inTitles: nearTitles, share: PART };
}

/** The words of a page's own title where every one of them was asked for, else none; headings such as "The fix" many pages have. */
function wholeTitle(words, title) {
  const wanted = [...Search._parseQuery(title)[1]];
  return wanted.every((word) => words.has(word)) ? wanted : [];
}

/** Sphinx tells a page twice whose title has the words, too. */
const perform = Search._performSearch;
Search._performSearch = (...given) => {
  const told = new Set();
  const first = ([page, title]) => !told.has(`${page} ${title}`) && told.add(`${page} ${title}`);
  return perform(...given).reverse().filter(first).reverse();
};
