"""Formulas of untrusted origin: MathJax gets the commands that set type, and no other.

Others make links, set styles and ids, load extensions, define commands or move things across the page; which these
are differs from version to version, so what isn't known here loses its backslash.
"""

from __future__ import annotations

import html
import re

GREEK = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa varkappa lambda mu nu xi omicron pi
varpi rho varrho sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon
Phi Psi Omega aleph beth gimel daleth digamma ell hbar hslash imath jmath wp Re Im eth Bbbk
"""
FUNCTIONS = """
arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lg lim liminf limsup ln log max min
Pr sec sin sinh sup tan tanh injlim projlim varinjlim varliminf varlimsup varprojlim operatorname bmod mod pmod pod
"""
RELATIONS = """
le leq ge geq ne neq lt gt ll gg lll ggg equiv sim simeq approx approxeq cong propto asymp doteq prec succ preceq
succeq subset supset subseteq supseteq subsetneq supsetneq sqsubset sqsupset sqsubseteq sqsupseteq in ni notin owns
mid nmid parallel nparallel perp models vdash dashv Vdash vDash bowtie smile frown not leqslant geqslant lesssim
gtrsim lessgtr eqcirc circeq triangleq coloneqq triangleleft triangleright trianglelefteq trianglerighteq because
therefore between nleq ngeq nless ngtr nsim ncong nsubseteq nsupseteq
"""
OPERATORS = """
pm mp times div cdot ast star circ bullet oplus ominus otimes oslash odot wedge vee land lor lnot neg cap cup sqcap
sqcup setminus smallsetminus amalg dagger ddagger wr diamond bigtriangleup bigtriangledown uplus sum prod coprod
int iint iiint oint idotsint bigcap bigcup bigsqcup bigvee bigwedge bigodot bigotimes bigoplus biguplus intop
smallint dotplus ltimes rtimes boxplus boxminus boxtimes boxdot barwedge veebar intercal circledast circledcirc
circleddash
"""
ARROWS = """
to gets leftarrow rightarrow leftrightarrow Leftarrow Rightarrow Leftrightarrow longleftarrow longrightarrow
longleftrightarrow Longleftarrow Longrightarrow Longleftrightarrow mapsto longmapsto hookleftarrow hookrightarrow
leftharpoonup leftharpoondown rightharpoonup rightharpoondown rightleftharpoons uparrow downarrow updownarrow
Uparrow Downarrow Updownarrow nearrow searrow swarrow nwarrow iff implies impliedby leadsto rightsquigarrow
upharpoonleft nrightarrow nleftarrow twoheadrightarrow twoheadleftarrow xleftarrow xrightarrow circlearrowleft
circlearrowright
"""
SIGNS = """
infty nabla partial forall exists nexists emptyset varnothing angle measuredangle sphericalangle triangle backslash
prime top bot surd flat natural sharp clubsuit diamondsuit heartsuit spadesuit cdots ldots dots dotsb dotsc dotsi
dotsm dotso vdots ddots colon lbrace rbrace lbrack rbrack langle rangle lceil rceil lfloor rfloor lvert rvert lVert
rVert vert Vert lgroup rgroup lmoustache rmoustache square blacksquare Box Diamond lozenge blacklozenge bigstar
checkmark degree S P complement mho pounds yen circledR copyright dag ddag bigcirc ulcorner urcorner llcorner
lrcorner
"""
SHAPES = """
frac dfrac tfrac cfrac binom dbinom tbinom genfrac sqrt root of over atop choose above brace brack overline
underline overbrace underbrace overbracket underbracket overrightarrow overleftarrow overleftrightarrow
underrightarrow underleftarrow overset underset stackrel substack sideset hat widehat check widecheck tilde
widetilde acute grave breve bar vec dot ddot dddot ddddot mathring not cancel bcancel xcancel boxed left right
middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm Bigm biggm Biggm limits nolimits
displaylimits begin end hline hdashline cr newline nonumber notag tag phantom hphantom vphantom smash mathstrut
strut intertext shortintertext text textrm textbf textit textsf texttt textup textnormal mbox mathrm mathbf mathit
mathsf mathtt mathcal mathscr mathfrak mathbb mathnormal boldsymbol bm pmb rm bf it sf tt cal scr frak Bbb
displaystyle textstyle scriptstyle scriptscriptstyle mathop mathbin mathrel mathord mathopen mathclose mathpunct
mathinner tiny scriptsize small normalsize large Large LARGE huge Huge quad qquad enspace thinspace medspace
thickspace negthinspace negmedspace negthickspace allowbreak displaylines matrix pmatrix bmatrix cases eqalign
color textcolor TeX LaTeX label ref eqref
"""
COMMANDS = frozenset(" ".join((GREEK, FUNCTIONS, RELATIONS, OPERATORS, ARROWS, SIGNS, SHAPES)).split())
TOKEN = re.compile(r"(?<!\\)\\(\\*)([A-Za-z]+)")  # backslashes, then a word
UNCLOSED = 20  # environments that are begun and not ended: each is looked for up to the text's end
ENVIRONMENT = re.compile(r"\\(begin|end)\{([^{}\n]{0,40})\}")
MATH_TAG = re.compile(r'<(/?)([A-Za-z][A-Za-z0-9]*)(?:[^<>"]|"[^"]*")*>')
QUIET = frozenset({"pre", "code"})  # where MathJax looks for no formula


def quiet_tex(text: str) -> str:
    """The text with a plain word where MathJax would find a command that isn't known here.

    >>> quiet_tex(r"$\\href{javascript:x()}{y} + \\frac{1}{2}$")
    '$href{javascript:x()}{y} + \\\\frac{1}{2}$'
    """
    before = None
    while before != text:
        before, text = text, TOKEN.sub(_quiet, text)
    return text


def _quiet(match: re.Match[str]) -> str:
    """`\\\\` begins a new line; a word behind it stands apart, so that no later reader takes both for a command."""
    others, word = match[1], match[2]
    if word in COMMANDS:
        return match[0]
    if len(others) % 2:
        return f"\\{others} {word}"
    return f"{others} {word}" if others else word


def plain_tex(text: str) -> str:
    """The same for text that its reader decodes once more: letters by number or name are decoded first.

    >>> plain_tex("&amp;bsol;href{x}{y}")
    'href{x}{y}'
    """
    before = None
    while before != text:
        before, text = text, html.unescape(text)
    return quiet_tex(text)


def quiet_html(cleaned: str) -> str:
    """The same for cleaned HTML, outside of code, where MathJax looks for no formula and a backslash is a letter."""
    parts, at, inside = [], 0, 0
    for match in MATH_TAG.finditer(cleaned):
        piece = cleaned[at : match.start()]
        parts += [piece if inside else quiet_tex(piece), match[0]]
        at = match.end()
        if match[2].lower() in QUIET:
            inside = max(0, inside + (-1 if match[1] else 1))
    rest = cleaned[at:]
    return "".join([*parts, rest if inside else quiet_tex(rest)])


def unclosed_environments(text: str) -> int:
    r"""How many environments are begun and never ended.

    >>> unclosed_environments(r"\begin{a} \begin{b} \end{b}")
    1
    """
    open_ones: dict[str, int] = {}
    for match in ENVIRONMENT.finditer(text):
        open_ones[match[2]] = max(0, open_ones.get(match[2], 0) + (1 if match[1] == "begin" else -1))
    return sum(open_ones.values())
