r"""Why a job hangs, as a person explains it: which ranks make which calls, and which do not.

``save_checkpoint stands under is_main_process, so the others never get to its barrier and it
hangs.``  ``With different numbers of batches the longest one waits forever.``  Nobody is named, and
often it is told as a rule ("if one rank recompiles, this deadlocks"): of ranks that somebody saw,
``accounts`` and ``one_and_others`` read. A text explains one hang, so the first kind counts that
is in it. Where nothing tells of a hang near by, it explains none.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import NOBODY, Account, Deed
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.stacks.prose import Prose, paragraphs, sentences

NEAR = 2  # sentences between an explanation and the hang that it explains
LONGEST_SENTENCE = 600

_UNIT = r"(?:ranks?|process(?:es)?|workers?|nodes?|gpus?|machines?|hosts?|stages?|devices?)\b"
_SOME = (
    r"(?:\b(?:some|one|a|an|any|each|certain|those|these|other|another|whichever|which|that|most"
    r"|different|few|several|skipping|empty|master|slave|main|first|last|idle|non-\w+)"
    r"(?: of)?(?: the)?(?: [\w/-]+){0,2}? " + _UNIT + r"|\branks? \d+(?:\.\.|-)\w[\w-]*)"
)
_FIRST = (
    r"(?:(?:the |on )?(?:global |local |world )?rank[- ]?(?:0|zero)\b|(?:the )?(?:main|master|first"
    rf"|chief|lead)[- ]{_UNIT}|(?:one|single|some|a subset|part)(?: of)?(?: the)? {_UNIT})"
)
_ON_FIRST = (
    r"(?:\b\w*is_(?:global_)?(?:main|master|zero|rank_?0|chief)\w*|\bmain_process\b|\brank_zero_only"
    r"|\b(?:\w*rank\w*(?:\(\))?|process_index) ?(?:==|!=) ?0|\bmain process)"
)
_CALL = (
    r"(?:all[-_ ]?(?:reduc|gather|to[-_ ]?all)\w*|reduce[-_ ]?scatter\w*|broadcast\w*|barrier\w*"
    r"|\w*gather\w*|collectives?|\w*save_\w+|\w*state_dict\w*|wait_for_everyone"
    r"|rendezvous|self\.log|nccl \w+)"
)
_DATA = (
    r"(?:mini-?|micro-?)?(?:data|batch\w*|shards?|samples?|steps?|rows?|examples?|inputs?"
    r"|iterations?|utterances?|chunks?|items?|images?|sequences|microbatch\w*)\b"
)
_UNLIKE = (
    r"(?:different|differing|uneven|unequal|unbalanced|varying|inconsistent|mismatched|divergent"
    r"|diverging|non[- ]?matching|unmatched|not the same)"
)
_GROUPS = r"(?:process[- ]groups?|PGs?|communicators?|sub-?groups?)\b"
_SENDS = r"(?:i?send|i?recv|receive)(?:s|ing|_\w+)?\b(?!/| operation)"
_CROSSES = (
    r"\bcross-(?:PG|group|communicator) (?:dead)?lock"
    rf"|\b(?:two|both|different|separate|second|another|across)(?: \w+)? {_GROUPS}"
    r"[^.;]{0,100}\b(?:order\w*|circular|deadlock\w*|each other|interleav\w*)"
    r"|\b(?:order\w*|circular|deadlock\w*|interleav\w*)[^.;]{0,60}"
    rf"\b(?:two|both|different|separate|across)(?: \w+)? {_GROUPS}"
)
_RECOMPILES = (
    rf"(?:{_SOME}|{_FIRST})[^.;]{{0,60}}?"
    r"\b(?:re-?compil\w*|compil(?:es|ing)\b|graph breaks?|(?:cached|compiled) (?:kernel|graph))"
    r"|\b(?:re-?compil\w*|graph breaks?|compiled graphs?|torch\.compile|dynamo|inductor)"
    rf"[^.;]{{0,80}}?(?:{_SOME}|\b(?:diverg\w*|differs?|different\w*)\b)"
    rf"|{_UNIT} (?:\w+ ){{0,2}}?(?:different|other) (?:\w+ ){{0,2}}?"
    r"(?:HLO|programs?|executables?)\b"
)
_UNEVEN = (
    rf"\b{_UNLIKE} (?:total )?(?:numbers?|amounts?|counts?|lengths?|quantit\w+) of"
    rf"(?: [\w-]+){{0,2}}? {_DATA}"
    rf"|\b{_UNLIKE}(?: [\w-]+){{0,3}}? counts?\b"
    rf"|\b(?:uneven|unequal|unbalanced)(?: [\w-]+){{0,2}}? {_DATA}"
    rf"|{_UNIT} (?:\w+ )?(?:with|has|have|had|gets?|got|runs?|receives?|sees?) "
    rf"(?:one |\d )?(?:fewer|less|more|zero|no)(?: more)?(?: [\w-]+){{0,2}}? {_DATA}"
    rf"|\b(?:num(?:ber)?s?|amounts?|lengths?) of(?: [\w-]+){{0,2}}? {_DATA}[^.;]{{0,40}}? "
    r"(?:differs?|different|is not the same|uneven|unequal)\b"
    r"|(?:batch|step|数据|样本)\w*\s*(?:的)?(?:数量|个数|数目|量|数|长度)?\s*"
    r"(?:不一致|不同|不均|不相等|不等|不一样)|\w*drop_last\b"
    rf"|(?:{_SOME}|{_FIRST})[^.;]{{0,40}}?\b(?:StopIteration\b"
    r"|(?:exhaust(?:s|ed)|(?:runs?|ran) out of)(?: \w+)? (?:iterator|\w*loader|dataset|"
    rf"{_DATA}))"
    r"|\b(?:last|final) (?:batch|step|iteration) of (?:the |each |every |an )?epoch"
)
_UNPAIRED = (
    rf"\b(?:both|each|all)(?: \w+)? {_UNIT}[^.;]{{0,60}}\b{_SENDS}"
    rf"|\b{_SENDS}[^.;]{{0,80}}\b(?:never|no matching|unmatched|without a|asymmetric"
    r"|mismatch\w*|only after|out of order|(?:wrong|different) order)\b"
    r"|\b(?:no matching|unmatched|asymmetric|mismatched)(?: \w+){0,2}? "
    rf"(?:{_SENDS}|p2p)"
    rf"|\bwait\w*(?: [a-z]+){{0,3}}? (?:in|for|on)(?: \w+)? {_SENDS}"
    rf"|\b{_SENDS}[^.;]{{0,40}}\b(?:matched|paired|pairing)\b|\border of (?:the )?{_SENDS}"
    rf"|\b{_SENDS}[^.;]{{0,60}}\buntil (?:the |its |a )?(?:corresponding|matching)"
    r"|\b(?:operations?|sends?|receives?) (?:never|do not|don.t) match\b"
    r"|\b(?:not|n.t|never|without) (?:launch|post|issu|call|mak)\w* (?:\w+ ){0,3}?i?(?:recv|send)\b"
    r"|\bbatch_isend_irecv\b[^.;]{0,60}\b(?:hang|deadlock)\w*"
)
_DIFFERS = (
    rf"\b(?:{_UNLIKE}|mismatch\w*|desync(?:ed|hroni[sz]ed)|wrong|out[- ]of[- ]order)"
    r"(?: [\w-]+){0,2}? "
    rf"(?:orders?\b|sequences?\b|{_CALL}|graphs?\b|branch\w*|code)"
    rf"|\b(?:collectives?|{_CALL}) (?:\w+ ){{0,2}}?(?:mismatch|order\w*|diverg\w*)\b"
    rf"|\b{_UNIT} (?:\w+ ){{0,2}}?(?:diverge|disagree|are out of sync|go out of sync)"
    rf"|\bdiverg\w+ (?:across|between|among) (?:\w+ )?{_UNIT}|\brank[- ]diverg\w+"
    rf"|\bone {_UNIT} [^.;]{{0,60}}\b(?:in|inside|at) [^.;]{{0,60}}(?:\band|\bwhile|,) "
    r"(?:the |its )?(?:peers?|others?)\b"
    rf"|\b(?:one|ran|in) (?:a |one )?{_CALL} while\b"
    rf"|\basymmetric\w*[^.;]{{0,60}}\b(?:{_UNIT}|{_CALL})|\b{_UNIT}[^.;]{{0,60}}\basymmetric"
    rf"|\b{_UNLIKE} (?:\w+ )?(?:shapes?|sizes?|dimensions?|dtypes?)\b"
    r"|(?:通信|集合|算子|调用|执行)[^。,;]{0,10}(?:顺序|次数)[^。,;]{0,6}不(?:一致|同|匹配)"
    rf"|\bdifferently (?:on|across|between|in) (?:\w+ ){{0,2}}?{_UNIT}"
    r"|\borders? (?:\w+ ){0,6}?(?:same|differs?|different|changes?) (?:\w+ )?"
    r"(?:across|between|on)\b"
    r"|\b(?:tensors?|shapes?|sizes?|dtypes?) (?:\w+ ){0,2}?(?:empty|differs?|different|mismatch\w*"
    rf"|unequal)(?: \w+)? (?:on|in|across|between|for|from) (?:\w+ ){{0,2}}?{_UNIT}"
    rf"|\b(?:{_UNIT}|rank[- ]?zero)[^.;]{{0,160}} while (?:every|all|both|its|the)(?: other)? "
    rf"(?:peers?|{_UNIT}|others?)[^.;]{{0,30}}\b(?:waits?|blocks?|hangs?|in)\b"
)
_FAILS = (
    rf"{_SOME}(?: \w+){{0,2}}? (?:rais(?:es|ed)|throws?|threw|fail(?:s|ed)(?! to)|crash(?:es|ed)"
    r"|dies|died|errors? out|(?:gets?|got|hits?|meets?|met) (?:\S+ ){0,3}?(?:error|exception))\b"
    rf"|\b(?:failing|crashed|dead) {_UNIT}"
)
_SAVES_MEANWHILE = (
    rf"\b(?:{_FIRST}|{_SOME})[^.;]{{0,40}}\b(?:writ|sav|serializ|upload)\w+[^.;]{{0,100}}?"
    r"(?: while| and|,) (?:the )?(?:others?|all|every|remaining|rest)\b[^.;]{0,50}\bwait"
)
_SAVES = (
    r"\b(?:tim(?:ed?|es|ing)[- ]?outs?|hang\w*|hung|stuck|freez\w*|froze|stall\w*"
    r"|deadlock\w*)(?: \S+){0,6}? (?:while|when|during|at|on|in|after|before) (?:\S+ ){0,4}?"
    r"(?:sav(?:e|es|ing)\b|checkpoint|\w*save_\w+|\w*state_dict)"
    r"|\b(?:sav(?:e|es|ing)|checkpoint\w*)(?: \S+){0,8}? (?:takes? (?:\w+ )?longer|exceeds?"
    r"|tim(?:es|ed) out|hangs?|hung|stalls?|stuck|freezes)\b"
    r"|(?:checkpoint|保存)[^。,;]{0,10}卡"
)
_NEVER = (
    r"\b(?:skip(?:s|ped|ping)?|miss(?:es|ed)?|bypass\w*|early return"
    r"|(?:return|exit|leave|quit)(?:s|ed|ing)? (?:early|before)"
    r"|(?:never|won.t|will not|(?:do(?:es)?|did)(?:n.t| ?not)(?: even)?|fail(?:s|ed)? to) "
    r"(?:get|call|enter|arriv|reach|join|mak|particip|invok|issu|hit|execut|have|see|receiv|run"
    r"|post)\w*|(?:doesn|didn).t(?=[,.]| and\b)|exit(?:s|ed)? (?:cleanly|normally))"
)
_SKIPS = (
    rf"\bonly (?:(?!needs?)[\w-]+ ){{0,4}}?{_FIRST}(?! (?:print|log)s)"
    r"|\brank[- ]?(?:0|zero)[- ]only\b"
    r"|\b(?:under|inside|in|within|behind|wrapped|if|when|unless|judge)\b[^;]{0,40}?"
    rf"{_ON_FIRST}"
    rf"|(?:{_SOME}|\bexperts?)[^.;()]{{0,80}}?{_NEVER}"
    rf"|\bnot (?:\w+ ){{0,4}}?on (?:all|every) {_UNIT}"
    rf"|\bsome {_UNIT}[^.;]{{0,60}} while (?:the )?others\b"
    rf"|{_UNIT} (?:that|which|who) (?:never|(?:do(?:es)?|did)(?:n.t| ?not)) (?!print|log|sav|writ)"
    r"|(?:rank|进程|卡|节点|worker) ?[^。;]{0,20}"
    r"(?:(?:没有?|未|不)(?:进行|执行|调用|进入|参与|到达|走到)|提前(?:结束|退出|返回))"
    rf"|\bearly returns? (?:in|on|by|for) {_SOME}"
    rf"|\breturn(?:s|ed)? early[^.;]{{0,120}}\b{_CALL}"
    rf"|\bnot (?:all|every)(?: the| of the)? {_UNIT}[^.;]{{0,30}}?"
    r"\b(?:call|enter|arriv|reach|join|mak|particip|invok|issu|hit|execut)"
    r"|\bwait(?:s|ing|ed)? (?:for|on) (?:it\b|(?:the )?(?:others?|rest|remaining)\b)"
    rf"|\b(?:others?|remaining|rest)(?: of the)?(?: (?:\w+ )?{_UNIT})? (?:then |all |will |to )?"
    r"(?:keep )?(?:waits?|blocks?|stalls?|hangs?)\b"
)
_WHY: tuple[tuple[Deed, limits.Pattern[str]], ...] = tuple(
    (deed, limits.compile(pattern, re.IGNORECASE))
    for deed, pattern in (
        (Deed.CROSSES, _CROSSES),
        (Deed.RECOMPILES, _RECOMPILES),
        (Deed.UNEVEN, _UNEVEN),
        (Deed.UNPAIRED, _UNPAIRED),
        (Deed.SAVES, _SAVES_MEANWHILE),
        (Deed.DIFFERS, _DIFFERS),
        (Deed.SKIPS, _SKIPS),
        (Deed.FAILS, _FAILS),
        (Deed.SAVES, _SAVES),
    )
)
_HANGS = limits.compile(
    r"\b(?:(?:dead-?|live-?|leads? to a )lock\w*|desync\w*|hang(?:s|ing)?|hung|stuck|froze\w*"
    r"|freez\w*|stall\w*|wait(?:s|ed|ing)?\b|block(?:s|ed|ing|(?= (?:in|on)))\b"
    r"|(?:others?|rest|remaining)(?: \w+){0,2} block\b|tim(?:ed?|es|ing)[- ]?outs?|abort(?:s|ed)"
    r"|never (?:returns?|completes?|finish\w*)|lose(?:s)? (?:its|their) peer|wedge[sd]?)\b"
    r"|卡住|卡死|卡在|死锁|挂起|阻塞|超时|一直等",
    re.IGNORECASE,
)
_MANUAL = re.compile(r"(?i)(?:^|/)(?:readme|changes|changelog|contributing|faq)\b|(?:^|/)docs?/")
"""What explains how a program works, not why a job hung."""
_DOUBTED = re.compile(
    r"(?i)\b(?:may|might|could|should|must|recommend\w*|e\.g|make sure|ensure|whether|please"
    r"|avoids?|prevents?|no longer|old(?:er)? versions?"
    r"|never hang\w*|(?:not|n't) (?:hang|deadlock|block))\b"
)


def _accounts(document: Document) -> Iterator[Account]:
    if _MANUAL.search(document.path):
        return
    told = [
        (number, sentence)
        for number, text in paragraphs(document)
        for sentence in sentences(text)
        if len(sentence) <= LONGEST_SENTENCE
    ]
    hangs = [at for at, (_, sentence) in enumerate(told) if _HANGS.search(sentence)]
    near = sorted({i for at in hangs for i in range(max(at - NEAR, 0), at + NEAR + 1)})
    for deed, pattern in _WHY if hangs else ():
        for number, sentence in (told[at] for at in near if at < len(told)):
            match = pattern.search(sentence)
            if match is not None and not _DOUBTED.search(sentence, 0, match.end()):
                source = document.source(number)
                yield Account(who=NOBODY, source=source, deed=deed, text=sentence.strip())
                return


READER = Prose(name="why a job hangs, as people explain it", facts=_accounts)
