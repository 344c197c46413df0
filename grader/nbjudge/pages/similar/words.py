"""What the page of a class's pairs says, in the languages that a course's pages may have."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "title": "Similar submissions",
        "pairs": "Pairs: {count}",
        "hint": "A hint where to look, never a grade: read both texts, and ask both students, before you conclude "
        "anything.",
        "said": "Submissions compared: {count}. Usually a submission's nearness to its nearest is {usual}; a pair is "
        "told from {bound} on.",
        "said_of_few": "Submissions compared: {count}, too few to say what is usual; a pair is told from {bound} on.",
        "how": "How this is found",
        "method": "Texts are compared as tokens: names, comments, white space, the spelling of literals and the order "
        "of cells don't count. What the course itself has written (release, tests, solution) is taken out, and what "
        "much of the class has alike. What is left weighs more the fewer have it. Nearness is how much of what the one "
        "with less has written the other one has too, from 0 to 1. Fewer than 60 tokens in common are never told: so "
        "short an answer is written alike by chance. Work together, a common source or the same teacher explain a pair "
        "as well as copying does.",
        "left_out": "{who} isn't compared: {why}",
        "in_part": "{who} has written more than is compared: the first {most} characters, not the {more} after them",
        "overview": "Overview",
        "pair": "Pair",
        "both": "{first} and {second}",
        "nearness": "Nearness",
        "tokens": "Tokens in common",
        "more": "In the command's table only: {count} more.",
        "of_pair": "Nearness {nearness}; tokens in common: {tokens}.",
        "section": "{who}, pair {number}",
        "passage": "Passage {number} in the other text",
        "others": "Cells with nothing in common: {count}.",
    },
    "zh_CN": {
        "title": "相似的作业",
        "pairs": "共 {count} 对",
        "hint": "这里只提示该看哪里，绝不是评分：下结论之前，请通读两份文字，并向两位学生了解情况。",
        "said": "共比较了 {count} 份作业。一份作业与其最接近者的接近度通常为 {usual}；从 {bound} 起才会列出。",
        "said_of_few": "共比较了 {count} 份作业，数量太少，无法说明通常的接近度；从 {bound} 起才会列出。",
        "how": "如何找出",
        "method": "文字按记号比较：名称、注释、空白、字面量的写法和单元格的顺序都不计。"
        "课程自己写的内容（发布版、测试、解答）以及班上许多人相同的内容都会去掉。其余内容，拥有的人越少，权重越大。接近度表示写得较少的一方有多少内容另一方也有，"
        "取值从 0 到 1。相同的记号不足 60 个时从不列出：这么短的答案碰巧相同并不奇怪。合作完成、同一来源或同一位老师，"
        "都和抄袭一样可以解释相似。",
        "left_out": "{who} 没有参与比较：{why}",
        "in_part": "{who} 写的内容多于所比较的：只比较了前 {most} 个字符，其后的 {more} 个没有比较",
        "overview": "概览",
        "pair": "一对",
        "both": "{first} 和 {second}",
        "nearness": "接近度",
        "tokens": "相同的记号",
        "more": "另有 {count} 对只在命令输出的表中列出。",
        "of_pair": "接近度 {nearness}；相同的记号：{tokens} 个。",
        "section": "{who}，第 {number} 对",
        "passage": "另一份文字中的第 {number} 处",
        "others": "没有相同之处的单元格：{count} 个。",
    },
}
